// SPDX-License-Identifier: Apache-2.0
// The address of a thread's variable takes a call in a shared library (__tls_get_addr, 11 instructions), which the
// compiler makes again at every use, because it holds the address for a constant.
#pragma once

namespace thermocline {

// The same address, which the compiler then keeps.
template <class T>
[[gnu::always_inline]] inline T* address_once(T* address) {
  asm("" : "+r"(address));
  return address;
}

}  // namespace thermocline
