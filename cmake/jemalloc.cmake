# Target jemalloc_private: jemalloc as a static library of ours alone, for the pinned host pool (see allocator/README.md). Its functions
# are called thermocline_je_mallocx and so on; none is exported, so the host program's malloc is never accessed.
# Built once per machine, in a cache outside the build tree.
set(THERMOCLINE_JEMALLOC_SOURCE "" CACHE PATH "An unpacked jemalloc 5.x; empty: the distribution's source package, fetched with apt")
if(DEFINED ENV{THERMOCLINE_BUILD_CACHE})
  set(thermocline_cache "$ENV{THERMOCLINE_BUILD_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(thermocline_cache "$ENV{XDG_CACHE_HOME}/thermocline")
elseif(DEFINED ENV{HOME})
  set(thermocline_cache "$ENV{HOME}/.cache/thermocline")
else()
  set(thermocline_cache "${CMAKE_BINARY_DIR}/cache")
endif()

# Whatever decides what comes out: how it is built, from what, with what, for what.
set(jemalloc_script "${CMAKE_CURRENT_LIST_DIR}/build_jemalloc.sh")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${jemalloc_script}")
file(SHA256 "${jemalloc_script}" jemalloc_script_hash)
set(jemalloc_system "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release jemalloc_system REGEX "^(ID|VERSION_ID)=")
endif()
string(SHA256 jemalloc_key "${jemalloc_script_hash};${THERMOCLINE_JEMALLOC_SOURCE};${jemalloc_system};${CMAKE_SYSTEM_PROCESSOR};${CMAKE_C_COMPILER};${CMAKE_C_COMPILER_VERSION}")
string(SUBSTRING "${jemalloc_key}" 0 16 jemalloc_key)
set(jemalloc_prefix "${thermocline_cache}/jemalloc-${jemalloc_key}")

if(NOT EXISTS "${jemalloc_prefix}/complete")
  message(STATUS "Building a private jemalloc in ${jemalloc_prefix} (once, about a minute)")
  execute_process(
    COMMAND "${jemalloc_script}" "${jemalloc_prefix}" "${CMAKE_C_COMPILER}" "${THERMOCLINE_JEMALLOC_SOURCE}"
    RESULT_VARIABLE jemalloc_result)
  if(NOT jemalloc_result EQUAL 0)
    message(FATAL_ERROR "The private jemalloc could not be built; the lines above say why.")
  endif()
endif()

add_library(jemalloc_private STATIC IMPORTED GLOBAL)
set_target_properties(jemalloc_private PROPERTIES
  IMPORTED_LOCATION "${jemalloc_prefix}/lib/libjemalloc_pic.a"
  INTERFACE_INCLUDE_DIRECTORIES "${jemalloc_prefix}/include")
find_package(Threads REQUIRED)
target_link_libraries(jemalloc_private INTERFACE Threads::Threads)
