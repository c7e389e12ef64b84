// SPDX-License-Identifier: Apache-2.0
// Functions of CUDA 13.0's runtime that the simulated one does not carry: present, so that programs load, and refusing
// by name. The headers are not included here, because these stand for functions of any signature: none of them reads
// its arguments.
namespace simulator::cudart {

// cudaErrorNotSupported, recorded and named once (session.cc); the type is the header's, the number is the same.
int refuse(const char* name, const char* reason);

}  // namespace simulator::cudart

#define CUDART_NOT_CARRIED(name, reason) \
  extern "C" int name();                 \
  extern "C" int name() { return ::simulator::cudart::refuse(#name, reason); }
#include "simulator/cudart/not_carried.def"
#undef CUDART_NOT_CARRIED
