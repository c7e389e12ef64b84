# Compiles the sources of a library ten at a time: the headers that they include are read once for all ten, which saves a third of a whole build.
# On in the presets asan and tsan, and in `./dev demo` and `./dev test`. Off in `./dev build`, for changes to single files, and for the linter.
option(THERMOCLINE_UNITY "Compile the sources of each library several at a time" OFF)

# Called last, when all targets and their sources are known. A source is compiled alone if it defines a name outside a class that another source
# of its library defines, too. If a new source therefore does not compile under asan, rename its definition, or list the source here.
function(thermocline_unity)
  if(NOT THERMOCLINE_UNITY)
    return()
  endif()
  # gcc gives these warnings only where one file includes several sources.
  set(options "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;-Wno-subobject-linkage>")
  set(alone_thermocline_driver assumptions_of_surroundings.cc assumptions_of_work.cc library.cc mapping_waits.cc)
  set(alone_thermocline_allocator jemalloc_settings.cc)
  set(alone_thermocline_telemetry live_page_reader.cc)
  set(alone_thermocline_offload digest/digest_code.cc)
  set(alone_thermocline_config size.cc toml_file.cc)
  # The instructions of launch_hooks.cc and parameters.cc are counted, as below.
  set(alone_thermocline_hooks entry/launch_hooks.cc operands/parameters.cc submit/submit.cc submit/heap_memory.cc pointers/tables_in_place.cc pointers/uploads.cc entry/pool_usage.cc entry/lease_thread.cc capture/captures.cc interpose/real_table.cc
    relaunch/ptx_accesses.cc relaunch/ptx_kernel.cc relaunch/ptx_proof.cc relaunch/symbolic.cc)
  set(alone_simulator_core core/execution/kernel_watch.cc faults/faults.cc)
  set(alone_simulated_cuda entry_points/entry_points.cc entry_points/first_forms.cc entry_points/per_thread.cc entry_points/refused.cc graph/graph_exec.cc)
  set(alone_simulated_cudart not_carried.cc memory/batch_api.cc memory/copy_api.cc stream/stream_api.cc)
  set(alone_thermocline_trace split.cc event_file.cc event_lines.cc execution_order.cc)
  set(targets thermocline_driver thermocline_telemetry thermocline_config thermocline_hooks
    simulator_core simulated_cuda simulated_cudart thermocline_trace thermocline_tool_parts thermocline_tool)
  # The instructions of these two are counted in a release build, so inlining must be as in a package.
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
