// SPDX-License-Identifier: Apache-2.0
// glibc 2.34 and newer run a program's constructors themselves; older ones call what the program hands them, and this
// machine's start-up code hands them nothing. Linked into the programs of a portable build with
// --wrap=__libc_start_main: newer ones call it, too.
extern "C" {
using Main = int(int, char**, char**);
using Initializer = void(int, char**, char**);

extern Initializer* const __init_array_start[];
extern Initializer* const __init_array_end[];
void _init();
int __real___libc_start_main(Main* main, int count, char** arguments, Initializer* initialize, void (*finish)(),
                             void (*unload)(), void* stack_end);

static void run_constructors(int count, char** arguments, char** environment) {
  _init();
  const long constructors = __init_array_end - __init_array_start;
  for (long i = 0; i < constructors; ++i) __init_array_start[i](count, arguments, environment);
}

// Destructors are the loader's in every version.
__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main* main, int count, char** arguments,
                                                                   Initializer*, void (*finish)(), void (*unload)(),
                                                                   void* stack_end) {
  return __real___libc_start_main(main, count, arguments, run_constructors, finish, unload, stack_end);
}
}
