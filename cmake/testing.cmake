# thermocline_add_test(NAME SOURCES ... [PROGRAM name] [LIBRARIES ...] [DEFINITIONS ...] [DEPENDS ...] [ENVIRONMENT A=B ...] [LABELS ...]
# [SHARDS n] [ONE_THREAD] [UNDER_TSAN pattern ...] [UNDER_ASAN pattern ...]): a GoogleTest program known to ctest, for
# the folders below tests/. With SHARDS it is n tests, NAME_1 and so on, that run side by side and share the program's cases.
# With UNDER_TSAN or UNDER_ASAN that sanitizer sees these cases alone: a process takes it up to ten times as long. ONE_THREAD: neither the test
# nor what it tests has another one, so there is nothing for the thread sanitizer to see.
# PROGRAM: tests of one folder that name the same are linked into one program where sources are compiled several at a time
# (THERMOCLINE_UNITY), since the library's templates take most of the time of a small test. ctest still runs each in a process of its
# own, by the names of its test suites: these are different in all tests of the program.
# Label a test `long` when it tries many seeds; THERMOCLINE_TEST_SEEDS, in percent, says how many (tests/support/seeds.h;
# under the sanitizers few: see CMakePresets.json).
find_package(GTest REQUIRED)

# A test's own code does little: optimizing it would take longer than it saves. The code under test is optimized as ever.
set(thermocline_test_options -O0)

# Tests that take 20 s of CPU time or more, and neither try many seeds nor have shards.
set(thermocline_longest_tests conformance_test offload_digest_test ptx_semantics_test simulated_cudart_programs_test
  simulated_cudart_real_kernels_test simulated_cudart_recompute_test tool_command_test trace_bounds_test)

# Sets `result` to a GoogleTest filter for all suites of the sources, which no other test of the program has.
function(thermocline_filter_of_suites name program sources result)
  get_property(taken GLOBAL PROPERTY thermocline_suites_of_${program})
  set(suites)
  foreach(source IN LISTS sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    file(READ "${source}" text)
    string(REGEX MATCHALL "\n(TYPED_)?TEST(_F|_P)?\\([A-Za-z0-9_]+" found "${text}")
    list(TRANSFORM found REPLACE ".*\\(" "")
    list(APPEND suites ${found})
  endforeach()
  list(REMOVE_DUPLICATES suites)
  set(filter "")
  foreach(suite IN LISTS suites)
    if("${suite}" IN_LIST taken)
      message(FATAL_ERROR "${name}: another test of the program ${program} has a suite ${suite}; give one of them another name")
    endif()
    string(APPEND filter ":${suite}.*:*/${suite}.*:${suite}/?.*")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY thermocline_suites_of_${program} ${suites})
  set_property(GLOBAL APPEND_STRING PROPERTY thermocline_filter_of_${program} "${filter}")
  string(SUBSTRING "${filter}" 1 -1 filter)
  set(${result} "${filter}" PARENT_SCOPE)
endfunction()

# That each case of a shared program is one of some test: those that no test names are none.
function(thermocline_add_test_of_the_rest program)
  get_property(filter GLOBAL PROPERTY thermocline_filter_of_${program})
  add_test(NAME ${program}_are_all_run COMMAND ${program} "--gtest_filter=*-${filter}")
  set_tests_properties(${program}_are_all_run PROPERTIES PASS_REGULAR_EXPRESSION "Running 0 tests from 0 test suites")
endfunction()

function(thermocline_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_THREAD" "SHARDS;PROGRAM"
    "SOURCES;LIBRARIES;DEFINITIONS;DEPENDS;UNDER_TSAN;UNDER_ASAN;ENVIRONMENT;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "thermocline_add_test(${name}): SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(program "${name}")
  set(filters)
  if(arg_PROGRAM AND THERMOCLINE_UNITY)
    set(program "${arg_PROGRAM}")
    if(arg_ONE_THREAD AND THERMOCLINE_SANITIZE STREQUAL "thread")
      return()
    endif()
    thermocline_filter_of_suites(${name} ${program} "${arg_SOURCES}" filters)
  endif()
  if(NOT TARGET ${program})
    add_executable(${program})
    target_link_libraries(${program} PRIVATE GTest::gtest GTest::gtest_main)
    target_precompile_headers(${program} REUSE_FROM thermocline_test_header)
    target_compile_options(${program} PRIVATE ${thermocline_test_options})
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    if(filters)
      # A deferred call sees variables as they are at the end of the folder.
      cmake_language(EVAL CODE "cmake_language(DEFER CALL thermocline_add_test_of_the_rest ${program})")
    endif()
  endif()
  target_sources(${program} PRIVATE ${arg_SOURCES})
  target_link_libraries(${program} PRIVATE ${arg_LIBRARIES})
  target_compile_definitions(${program} PRIVATE ${arg_DEFINITIONS})
  if(arg_DEPENDS)
    add_dependencies(${program} ${arg_DEPENDS})
  endif()
  if(arg_ONE_THREAD AND THERMOCLINE_SANITIZE STREQUAL "thread")
    # Nobody builds it; the target is there for what is said of it afterwards.
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
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
    # Patterns that leave cases out follow the suites; others name the suite that they mean.
    string(JOIN ":" filter ${patterns})
    if(filters AND (NOT filter OR filter MATCHES "^-"))
      set(filter "${filters}${filter}")
    endif()
    if(filter)
      list(APPEND environment "GTEST_FILTER=${filter}")
    endif()
    add_test(NAME ${test} COMMAND ${program})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}" LABELS "${arg_LABELS}")
    if(arg_SHARDS OR arg_LABELS MATCHES "long" OR name IN_LIST thermocline_longest_tests)
      # The longest begin first, so that none is left to run alone at the end.
      set_tests_properties(${test} PROPERTIES COST 100)
    endif()
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()
