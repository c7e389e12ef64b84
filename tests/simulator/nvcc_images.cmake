# One source in every form that nvcc writes device code in, for image_test.
set(images "${CMAKE_CURRENT_BINARY_DIR}/images")
set(image_forms
  "plain.ptx|-ptx"
  "plain.cubin|-cubin -arch=sm_90"
  "long.cubin|-cubin -arch=sm_120"
  "zstd.fatbin|-fatbin"
  "ptx_only.fatbin|-fatbin -gencode arch=compute_80,code=compute_80"
  "uncompressed.fatbin|-fatbin --no-compress -gencode arch=compute_80,code=compute_80"
  "lz4.fatbin|-fatbin -Xfatbin -compress-all -compress-mode speed"
  "sass_only.fatbin|-fatbin -gencode arch=compute_90,code=sm_90")
set(image_files "")
foreach(form IN LISTS image_forms)
  string(REPLACE "|" ";" form "${form}")
  list(GET form 0 file)
  list(GET form 1 flags)
  separate_arguments(flags)
  add_custom_command(OUTPUT "${images}/${file}"
    COMMAND ${CMAKE_COMMAND} -E make_directory "${images}"
    COMMAND "${THERMOCLINE_NVCC}" ${flags} -o "${images}/${file}" "${CMAKE_CURRENT_SOURCE_DIR}/images.cu"
    DEPENDS images.cu VERBATIM)
  list(APPEND image_files "${images}/${file}")
endforeach()
add_custom_target(simulator_images ALL DEPENDS ${image_files})
add_dependencies(simulator_image_test simulator_images)
target_compile_definitions(simulator_image_test PRIVATE "IMAGES_FOLDER=\"${images}\"")
