# The headers of the CUDA toolkit (cuda.h, nvtx3); nothing of CUDA is ever linked.
find_package(CUDAToolkit QUIET)
add_library(cuda_headers INTERFACE)
if(CUDAToolkit_FOUND)
  target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
else()
  message(FATAL_ERROR "The CUDA headers (cuda.h) were not found.")
endif()
