// SPDX-License-Identifier: Apache-2.0
// THERMOCLINE_CHECK(condition, "the sentence that does not hold") checks an invariant of the library and is always
// compiled in. When the condition is false, the installed handler runs. The default handler prints one line and aborts
// (tests and tools). The preloaded library installs its own handler, because it must never end its host process (see
// hooks/).
#pragma once

namespace thermocline {

using CheckHandler = void (*)(const char* file, int line, const char* condition, const char* sentence);

// Returns the handler that was installed before. Thread-safe.
CheckHandler set_check_handler(CheckHandler handler);

void check_failed(const char* file, int line, const char* condition, const char* sentence);

}  // namespace thermocline

#define THERMOCLINE_CHECK(condition, sentence)       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::thermocline::check_failed(__FILE__, __LINE__, #condition, sentence))
