# thermocline_add_test(NAME SOURCES ... [LIBRARIES ...] [ENVIRONMENT A=B ...] [LABELS ...] [SHARDS n]
# [ONE_THREAD] [UNDER_TSAN pattern ...] [UNDER_ASAN pattern ...]): a GoogleTest program known to ctest, for
# the folders below tests/. With SHARDS it is n tests, NAME_1 and so on, that run side by side and share the program's cases.
# With UNDER_TSAN or UNDER_ASAN that sanitizer sees these cases alone: a process takes it up to ten times as long. ONE_THREAD: neither the test
# nor what it tests has another one, so there is nothing for the thread sanitizer to see.
# Label a test `long` when it tries many seeds; THERMOCLINE_TEST_SEEDS, in percent, says how many (tests/support/seeds.h;
# under the sanitizers few: see CMakePresets.json).
find_package(GTest REQUIRED)

# A test's own code does little: optimizing it would take longer than it saves. The code under test is optimized as ever.
set(thermocline_test_options -O0)

# Tests that take 20 s of CPU time or more, and neither try many seeds nor have shards.
set(thermocline_longest_tests conformance_test offload_digest_test ptx_semantics_test simulated_cudart_programs_test
  simulated_cudart_real_kernels_test simulated_cudart_recompute_test tool_command_test trace_bounds_test)

function(thermocline_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_THREAD" "SHARDS" "SOURCES;LIBRARIES;UNDER_TSAN;UNDER_ASAN;ENVIRONMENT;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "thermocline_add_test(${name}): SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM thermocline_test_header)
  target_compile_options(${name} PRIVATE ${thermocline_test_options})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(arg_ONE_THREAD AND THERMOCLINE_SANITIZE STREQUAL "thread")
    # Nobody builds it; the target is there for what is said of it afterwards.
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set(tests "${name}")
  if(arg_SHARDS)
    set(tests)
    foreach(shard RANGE 1 ${arg_SHARDS})
      list(APPEND tests "${name}_${shard}")
    endforeach()
  endif()
  set(index 0)
  foreach(test IN LISTS tests)
    # Kernels mix (docs/simulated_device.md) whatever their code is, except in tests of that code.
    set(environment THERMOCLINE_SIMULATE_KERNELS=made-up ${arg_ENVIRONMENT})
    if(arg_SHARDS)
      list(APPEND environment "GTEST_TOTAL_SHARDS=${arg_SHARDS}" "GTEST_SHARD_INDEX=${index}")
    endif()
    set(patterns)
    if(THERMOCLINE_SANITIZE STREQUAL "thread")
      set(patterns ${arg_UNDER_TSAN})
    elseif(THERMOCLINE_SANITIZE MATCHES "address")
      set(patterns ${arg_UNDER_ASAN})
    endif()
    if(patterns)
      string(JOIN ":" filter ${patterns})
      list(APPEND environment "GTEST_FILTER=${filter}")
    endif()
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}" LABELS "${arg_LABELS}")
    if(arg_SHARDS OR arg_LABELS MATCHES "long" OR name IN_LIST thermocline_longest_tests)
      # The longest begin first, so that none is left to run alone at the end.
      set_tests_properties(${test} PROPERTIES COST 100)
    endif()
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()
