# Target cuda_headers: the headers of the CUDA toolkit (cuda.h, cuda_runtime_api.h, nvtx3). Nothing of CUDA is ever linked.
# THERMOCLINE_NVCC: the compiler for the example programs; empty where there is none, and then they are left out.
#
# Looked for in the usual places (CUDAToolkit_ROOT, nvcc on the PATH, /usr/local/cuda), then in build/cuda, where ./dev puts a private copy.
set(cuda_wanted 13.0)
set(cuda_private "${CMAKE_SOURCE_DIR}/build/cuda/nvidia/cu13")
find_package(CUDAToolkit ${cuda_wanted} QUIET)
if(NOT CUDAToolkit_FOUND AND EXISTS "${cuda_private}/bin/nvcc")
  unset(CUDAToolkit_NVCC_EXECUTABLE CACHE)
  unset(CUDAToolkit_BIN_DIR CACHE)
  set(CUDAToolkit_ROOT "${cuda_private}")
  find_package(CUDAToolkit ${cuda_wanted} QUIET)
endif()

# Headers without a compiler (the wheel nvidia-cuda-runtime alone, say) are enough for the library.
find_path(THERMOCLINE_CUDA_INCLUDE_DIR cuda.h HINTS ${CUDAToolkit_INCLUDE_DIRS} "${cuda_private}/include" /usr/local/cuda/include
  DOC "The folder with cuda.h, of CUDA ${cuda_wanted} or newer")
set(cuda_found "none")
if(THERMOCLINE_CUDA_INCLUDE_DIR)
  file(STRINGS "${THERMOCLINE_CUDA_INCLUDE_DIR}/cuda.h" cuda_found REGEX "^#define CUDA_VERSION [0-9]+")
  string(REGEX REPLACE "^#define CUDA_VERSION ([0-9]+)([0-9][0-9])[0-9].*" "\\1.\\2" cuda_found "${cuda_found}")
  string(REGEX REPLACE "\\.0([0-9])$" ".\\1" cuda_found "${cuda_found}")
endif()
if(NOT cuda_found VERSION_GREATER_EQUAL cuda_wanted OR NOT EXISTS "${THERMOCLINE_CUDA_INCLUDE_DIR}/nvtx3/nvToolsExt.h")
  unset(THERMOCLINE_CUDA_INCLUDE_DIR CACHE)
  message(FATAL_ERROR
    "The headers of CUDA ${cuda_wanted} or newer (cuda.h, cuda_runtime_api.h, nvtx3) are needed; found: ${cuda_found}.\n"
    "No GPU and no driver is needed. Any of these brings them:\n"
    "  ./dev build                   fetches a private copy into build/cuda\n"
    "  NVIDIA's own CUDA toolkit     packages cuda-cudart-dev-13-0, cuda-nvcc-13-0, cuda-nvtx-13-0 of its Debian and Ubuntu repositories\n"
    "  PyPI                          nvidia-cuda-runtime nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-nvtx nvidia-cuda-cccl, 13.*\n"
    "  Debian, section non-free      nvidia-cuda-toolkit, in a release where it is ${cuda_wanted} or newer\n"
    "A toolkit in an unusual place: -DCUDAToolkit_ROOT=<folder>.")
endif()
message(STATUS "CUDA headers ${cuda_found}: ${THERMOCLINE_CUDA_INCLUDE_DIR}")
add_library(cuda_headers INTERFACE)
# /usr/local/cuda is a link: which name is found depends on the PATH, and a compiler cache takes two names for two compilations.
file(REAL_PATH "${THERMOCLINE_CUDA_INCLUDE_DIR}" cuda_include_folder)
target_include_directories(cuda_headers SYSTEM INTERFACE "${cuda_include_folder}")

find_program(THERMOCLINE_NVCC nvcc HINTS "${CUDAToolkit_BIN_DIR}" "${cuda_private}/bin" /usr/local/cuda/bin
  DOC "nvcc of CUDA ${cuda_wanted} or newer, for the examples")
if(NOT THERMOCLINE_NVCC)
  message(STATUS "nvcc was not found: the examples are left out")
endif()
