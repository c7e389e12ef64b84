# thermocline_add_test(NAME SOURCES ... [LIBRARIES ...] [ENVIRONMENT A=B ...] [LABELS ...] [SHARDS n]
# [UNDER_TSAN pattern ...]): a GoogleTest program known to ctest, for
# the folders below tests/. With SHARDS it is n tests, NAME_1 and so on, that run side by side and share the program's cases.
# With UNDER_TSAN the thread sanitizer sees these cases alone: a process takes it ten times as long.
# Label a test `long` when it tries many seeds; THERMOCLINE_TEST_SEEDS, in percent, says how many (tests/support/seeds.h;
# under the sanitizers few: see CMakePresets.json).
find_package(GTest REQUIRED)

# What a test itself does is little; optimising it would take longer than it saves. What it tests is optimised as ever.
set(thermocline_test_options -O0)

function(thermocline_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARDS" "SOURCES;LIBRARIES;UNDER_TSAN;ENVIRONMENT;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "thermocline_add_test(${name}): SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM thermocline_test_header)
  target_compile_options(${name} PRIVATE ${thermocline_test_options})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  set(tests "${name}")
  if(arg_SHARDS)
    set(tests)
    foreach(shard RANGE 1 ${arg_SHARDS})
      list(APPEND tests "${name}_${shard}")
    endforeach()
  endif()
  set(index 0)
  foreach(test IN LISTS tests)
    # Kernels mix, whatever their code is, but in tests of that code.
    set(environment THERMOCLINE_SIMULATE_KERNELS=made-up ${arg_ENVIRONMENT})
    if(arg_SHARDS)
      list(APPEND environment "GTEST_TOTAL_SHARDS=${arg_SHARDS}" "GTEST_SHARD_INDEX=${index}")
    endif()
    if(arg_UNDER_TSAN AND THERMOCLINE_SANITIZE STREQUAL "thread")
      string(JOIN ":" filter ${arg_UNDER_TSAN})
      list(APPEND environment "GTEST_FILTER=${filter}")
    endif()
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}" LABELS "${arg_LABELS}" TIMEOUT 1200)
    if(arg_SHARDS OR arg_LABELS MATCHES "long")
      # The longest begin first, so that none is left to run alone at the end.
      set_tests_properties(${test} PROPERTIES COST 100)
    endif()
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()
