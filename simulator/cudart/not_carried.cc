// SPDX-License-Identifier: Apache-2.0
// Functions of CUDA 13.0's runtime that the simulated one does not support: they exist, so that programs load, and
// report their name when called. The CUDA headers are not included here, because these definitions replace functions of
// any signature; none of them reads its arguments.
// Compiled alone: where the headers were read before, these are other declarations of the same functions.
namespace simulator::cudart {

// cudaErrorNotSupported, recorded and reported once (session.cc); declared with int instead of the header's type.
int refuse(const char* name, const char* reason);

}  // namespace simulator::cudart

#define CUDART_NOT_CARRIED(name, reason) \
  extern "C" int name();                 \
  extern "C" int name() { return ::simulator::cudart::refuse(#name, reason); }
#include "simulator/cudart/not_carried.def"
#undef CUDART_NOT_CARRIED
