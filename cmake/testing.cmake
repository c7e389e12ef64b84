# thermocline_add_test(NAME SOURCES ... [LIBRARIES ...] [ENVIRONMENT A=B ...] [LABELS ...]): a GoogleTest program known to ctest, for the
# folders below tests/.
# Label a test `long` when it tries many seeds; it then takes their number from THERMOCLINE_TEST_SEEDS where that is set (under the
# sanitizers it is: see CMakePresets.json).
find_package(GTest REQUIRED)

function(thermocline_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;ENVIRONMENT;LABELS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "thermocline_add_test(${name}): SOURCES are needed; not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM thermocline_test_header)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}" LABELS "${arg_LABELS}" TIMEOUT 600)
endfunction()
