# THERMOCLINE_OLDEST_GLIBC=2.28: what is built also runs on systems with that glibc, and needs nothing else of them: the C++ runtime and the
# libraries of the command are linked into it. For x86-64 and the GNU linker. How: portable/glibc_stubs.sh. For wheels, not for distributions.
set(THERMOCLINE_OLDEST_GLIBC "" CACHE STRING "The oldest glibc to run on; empty: this machine's")
if(NOT THERMOCLINE_OLDEST_GLIBC)
  return()
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR THERMOCLINE_SANITIZE)
  message(FATAL_ERROR "THERMOCLINE_OLDEST_GLIBC is for x86-64, and for no sanitizer")
endif()

set(portable_folder "${CMAKE_BINARY_DIR}/glibc-${THERMOCLINE_OLDEST_GLIBC}")
file(GLOB portable_files CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/portable/*")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${portable_files})
execute_process(
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/portable/glibc_stubs.sh" "${THERMOCLINE_OLDEST_GLIBC}" "${portable_folder}" "${CMAKE_CXX_COMPILER}"
  COMMAND_ERROR_IS_FATAL ANY)

add_link_options("-L${portable_folder}" -static-libstdc++ -static-libgcc
  # In glibc before 2.34 these are libraries with code, so they are needed whatever this machine's linker thinks.
  "LINKER:--push-state,--no-as-needed" -lpthread -ldl -lrt -lm "LINKER:--pop-state"
  # Hidden, as all is that has been linked in: the libraries' version scripts say what is not.
  "${portable_folder}/newer_glibc.o")
string(APPEND CMAKE_EXE_LINKER_FLAGS " -Wl,--wrap=__libc_start_main ${portable_folder}/start.o")

# The licenses of all that is linked in or compiled in go into the package, in their own words.
foreach(package IN ITEMS coinor-libclp-dev coinor-libcoinutils-dev liblapack-dev libblas-dev libbz2-dev zlib1g-dev libzstd-dev liburing-dev libxxhash-dev llvm-14-dev
    libstdc++-12-dev libgfortran-12-dev libboost-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libjemalloc2)
  if(EXISTS "/usr/share/doc/${package}/copyright")
    install(FILES "/usr/share/doc/${package}/copyright" DESTINATION share/doc/thermocline/licences RENAME ${package})
  endif()
endforeach()
