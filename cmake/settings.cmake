# Language, warnings, visibility and the layout of the build tree, the same for every target.
include(GNUInstallDirs)
# The default package is that of the command (packaging.cmake).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME tools)

option(THERMOCLINE_WARNINGS_AS_ERRORS "Let a warning fail the build" ON)
set(THERMOCLINE_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize= (address,undefined or thread)")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, RelWithDebInfo or Release" FORCE)
endif()
# RelWithDebInfo is the build that is tested: optimized, with assert() left in, and line numbers for backtraces.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
# A package is optimized like the build that is tested. At -O3, gcc 12 also gives false warnings (in std::string, in small_vector).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
include_directories("${CMAKE_SOURCE_DIR}")

# The build tree mirrors the installed one: the tool finds the library and the simulator relative to its own executable.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-Wall;-Wextra;-Wconversion;-Wshadow;-Wundef>")
if(THERMOCLINE_WARNINGS_AS_ERRORS)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-Werror>")
endif()

# A program reaches the hooks by name alone, which no optimizer across files can see: it would drop them. Distributions may ask for
# -flto in CXXFLAGS, so it is not enough to leave it out.
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-fno-lto>")

if(THERMOCLINE_SANITIZE)
  # gcc's warnings that follow values through inlined code report, under sanitizers, what is not there (in <regex>, in Boost).
  # The other builds have them.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX,C>:-fsanitize=${THERMOCLINE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-Wno-maybe-uninitialized;-Wno-stringop-overread;-Wno-stringop-overflow;-Wno-array-bounds>")
  add_link_options(-fsanitize=${THERMOCLINE_SANITIZE})
endif()

# The headers that most sources of a module include take longer to read than the sources take to compile: each large module reads them once.
# Every source includes what it needs all the same; the lint reads them so.
set(thermocline_common_headers <algorithm> <array> <atomic> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional> <set> <span>
  <string> <string_view> <unordered_map> <utility> <vector>)

# Compiled once, whoever compiles it: clones, worktrees and continuous integration share what ccache holds, since paths below the source
# folder count from there. The language of messages is not part of an object.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(ccache_launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,locale "${CCACHE_PROGRAM}")
  # Sanitizers change nothing in the output of nvcc. ccache does not know that nvcc also calls the host's compiler.
  set(thermocline_nvcc_launcher "${ccache_launcher}")
  list(INSERT thermocline_nvcc_launcher 3 "CCACHE_EXTRAFILES=${CMAKE_CXX_COMPILER}")
  set(CMAKE_C_COMPILER_LAUNCHER "${ccache_launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ccache_launcher}")
endif()

