# Sources of a library compiled several at a time: what they include is read once for ten of them, a third of the time of a whole build.
# What is built as a whole says so (the presets asan and tsan, ./dev demo and test); `./dev build` and the linter have a command for each source.
option(THERMOCLINE_UNITY "Compile the sources of each library several at a time" OFF)

# At the end, when all targets and their sources are known. Sources that define a name of their own that another has, too, stay alone:
# a new one that does not compile under asan is renamed, or listed here.
function(thermocline_unity)
  if(NOT THERMOCLINE_UNITY)
    return()
  endif()
  # What gcc says of several sources in one file alone.
  set(options "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;-Wno-subobject-linkage>")
  set(alone_thermocline_driver assumptions_of_surroundings.cc assumptions_of_work.cc library.cc mapping_waits.cc)
  set(alone_thermocline_allocator jemalloc_settings.cc)
  set(alone_thermocline_telemetry live_page_reader.cc)
  set(alone_thermocline_offload digest/digest_code.cc)
  set(alone_thermocline_config size.cc toml_file.cc)
  # Of the hooks, launch_hooks.cc and parameters.cc are counted: see below.
  set(alone_thermocline_hooks entry/launch_hooks.cc operands/parameters.cc submit/submit.cc submit/heap_memory.cc pointers/tables_in_place.cc pointers/uploads.cc entry/pool_usage.cc entry/lease_thread.cc capture/captures.cc interpose/real_table.cc
    relaunch/ptx_accesses.cc relaunch/ptx_kernel.cc relaunch/ptx_proof.cc relaunch/symbolic.cc)
  set(alone_simulator_core core/execution/kernel_watch.cc faults/faults.cc)
  set(alone_simulated_cuda entry_points/entry_points.cc entry_points/first_forms.cc entry_points/per_thread.cc entry_points/refused.cc graph/graph_exec.cc)
  set(alone_simulated_cudart not_carried.cc memory/batch_api.cc memory/copy_api.cc stream/stream_api.cc)
  set(alone_thermocline_trace split.cc event_file.cc event_lines.cc execution_order.cc)
  set(targets thermocline_driver thermocline_telemetry thermocline_config thermocline_hooks
    simulator_core simulated_cuda simulated_cudart thermocline_trace thermocline_tool_parts thermocline_tool)
  # Their instructions are counted, and inlining is to be that of a package.
  if(THERMOCLINE_SANITIZE)
    list(APPEND targets thermocline_allocator thermocline_offload)
  endif()
  foreach(target IN LISTS targets)
    if(NOT TARGET ${target})
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    target_compile_options(${target} PRIVATE "${options}")
    get_target_property(folder ${target} SOURCE_DIR)
    list(TRANSFORM alone_${target} PREPEND "${folder}/")
    set_source_files_properties(${alone_${target}} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
