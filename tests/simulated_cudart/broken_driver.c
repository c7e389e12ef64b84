/* SPDX-License-Identifier: Apache-2.0
   A libcuda.so.1 that is older than cuGetProcAddress_v2: what a machine with too old a driver looks like. */
int cuDriverGetVersion(int* version);
int cuDriverGetVersion(int* version) {
  *version = 11000;
  return 0;
}
