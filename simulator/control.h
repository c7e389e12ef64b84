/* SPDX-License-Identifier: Apache-2.0
 *
 * Control of the simulated device, for tools and tests that chose it. The simulator's libcuda.so.1 exports one
 * function, simulated_device_control(); find it with dlsym. No program under test needs it and the library never uses
 * it.
 *
 * Conventions: C89 types, no ownership changes hands, strings are copied, every function takes the device's one lock.
 * Functions that answer `int` return a CUresult. Time is virtual, in nanoseconds.
 */
#ifndef THERMOCLINE_SIMULATOR_CONTROL_H
#define THERMOCLINE_SIMULATOR_CONTROL_H

/* NOLINTBEGIN(modernize-redundant-void-arg,modernize-deprecated-headers): this header is C */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMULATED_DEVICE_CONTROL_VERSION 1u

enum {
  SIMULATED_OPERAND_READ = 1,
  SIMULATED_OPERAND_WRITE = 2,
  SIMULATED_OPERAND_FRESH =
      4, /* counts as zero before this operator: nothing was written since the buffer was handed out */
  SIMULATED_OPERAND_CONTINUES = 8, /* with the operand before it, it is one, whose ranges follow one another */
  SIMULATED_OPERAND_SLICED = 16    /* each slice of the operator accesses its own slice (launch_slices) */
};

typedef struct SimulatedOperand {
  uint64_t address;
  uint64_t bytes;
  uint32_t flags;
} SimulatedOperand;

/* An operator that may be split: `all` slices, of which a launch computes `count`, from `first` on. */
typedef struct SimulatedSlices {
  uint32_t all, first, count;
  uint32_t is_relaunch; /* 1: what is computed is not part of the checksum */
  uint64_t ordinal;     /* 0: a new operator; else that of the operator whose slices these are */
} SimulatedSlices;

typedef struct SimulatedStatistics {
  size_t
      size; /* sizeof(SimulatedStatistics) of the caller, set before the call; fields are only ever added at the end */
  uint64_t kernels; /* launched kernels and declared operators that have completed */
  uint64_t h2d_copies, h2d_bytes, d2h_copies, d2h_bytes, d2d_copies, d2d_bytes, sets, set_bytes;
  uint64_t host_functions;
  int64_t host_ns;     /* the host's clock */
  int64_t last_end_ns; /* end of the last completed operation with a duration or an effect */
  int64_t compute_busy_ns, h2d_busy_ns, d2h_busy_ns; /* of all devices together; from device to device: the sender's */
  uint64_t creates, maps, unmaps, set_accesses, reserves;
  uint64_t physical_bytes, peak_physical_bytes; /* device memory taken, whoever took it */
  uint64_t live_bytes, peak_live_bytes;         /* registered buffers: what the program asked for */
  uint64_t pinned_bytes, peak_pinned_bytes;
  uint64_t operations; /* all completed operations, events included */
  uint64_t order_hash; /* see below */
  uint64_t races;      /* pairs that the race checker found; 0 where it is off */
  uint64_t faults;     /* calls that a plan made fail */
} SimulatedStatistics;

/* The contents of a tensor map: where its tensor is, and its layout (extents in elements, strides in bytes). */
typedef struct SimulatedTensorMap {
  uint64_t address;
  uint32_t rank, element_bytes;
  uint64_t extents[5], strides[5];
  uint32_t box[5];
} SimulatedTensorMap;

typedef struct SimulatedDeviceControl {
  uint32_t version;
  size_t size; /* sizeof(SimulatedDeviceControl) of the simulator */

  /* Before the first driver call (or after reset). Returns NULL, or a sentence that says what is wrong.
   *   device       name of a profile
   *   devices      how many of them there are: 1 to 8
   *   memory       real | tagged
   *   seed         a number: adversarial order; "time": order of time
   *   progress     on | off: the thread that runs pending work when the host is silent
   *   link-scale   factor on both link bandwidths
   *   memory-bytes capacity in place of the profile's
   *   kernels      real | made-up: whether kernels run their PTX, or mix what they name (docs/simulated_device.md)
   *   kernel-steps instructions of a thread in one loop, before that is taken for one that never ends
   *   cores        how many cores of the host may run blocks of a kernel; all that the process may use
   *   rate         fp32 | tensor: which arithmetic rate declared operators run at
   *   kernel-time  LOW-HIGH: undeclared kernels take between so many microseconds, log-uniform by name and parameters
   *   faults       a plan of what goes wrong, or a file that holds one (docs/faults.md)
   *   driver       how the driver violates assumptions about drivers: queue=1000,unmap=waits (docs/faults.md)
   *   blocked_timeout  seconds that the host waits for a stream that waits for a value, while nobody calls the driver; then
   *                the process ends with a line that says which
   *   queue-limit  operations that a stream holds before a call that adds to it waits: 1024; 0: any number
   *   check        0 | 1 | strict: the race checker (docs/race_checker.md)
   *   timeline     a file: when each operation ran, for Perfetto or chrome://tracing; empty: none */
  const char* (*configure)(const char* key, const char* value);

  /* Runs one declared operator asynchronously in `stream` (a CUstream; NULL: the legacy stream). Its duration is
   * `microseconds` if that is a number, else the larger of flops / rate and bytes / bandwidth, plus the launch. It
   * reads the `read` operands, and fills the `write` operands with contents derived from the name, the operator's
   * ordinal and everything that it read. At most 65536 operands. */
  int (*launch_operator)(void* stream, const char* name, double flops, double bytes, double microseconds,
                         const SimulatedOperand* operands, size_t count);

  int64_t (*now_ns)(void);        /* the host's clock */
  int64_t (*device_now_ns)(void); /* how far the device's time line has been executed */
  uint64_t (*checksum)(
      void); /* of the results of all completed operators and mixing kernels; does not depend on their order */
  uint64_t (*order_hash)(void); /* over completed operations in order of completion */
  void (*statistics)(SimulatedStatistics* out);
  void (*reset)(
      void); /* everything back to the start, settings of `configure` kept; no other thread may be inside the driver */

  /* For host implementations of kernels: reads the 128 bytes of a tensor map. Returns 0 if they are none. Takes no
   * lock. */
  int (*tensor_map)(const void* map, SimulatedTensorMap* out);

  /* For host implementations of kernels: the equivalent of cudaGraphSetConditional. Returns 0 if the kernel belongs to
   * no launch of a graph that has this condition. Takes no lock. */
  int (*set_condition)(uint64_t handle, uint32_t value);

  /* Runs the `ordinal`-th declared operator again (1: the first one since the start): if it reads what it read then,
   * it writes what it wrote then, wherever its operands are now. What it computes is not part of the checksum, and it
   * gets no ordinal. */
  int (*relaunch_operator)(void* stream, const char* name, double flops, double bytes, double microseconds,
                           const SimulatedOperand* operands, size_t count, uint64_t ordinal);

  /* As launch_operator, of consecutive slices of an operator. Slice s of a sliced operand is the s-th of equal ranges;
   * the operands are the ranges of this launch's slices alone. Each slice reads its own slices and what is not sliced,
   * and fills its own slices. A written operand that is not sliced accumulates: each slice but the first also reads
   * what the one before left there, so later launches have to read it, too. All slices together compute the same, however
   * they are launched. Only the launch of slice 0 may have ordinal 0. */
  int (*launch_slices)(void* stream, const char* name, double flops, double bytes, double microseconds,
                       const SimulatedOperand* operands, size_t count, const SimulatedSlices* slices);
} SimulatedDeviceControl;

/* Never NULL; the table lives as long as the process. */
const SimulatedDeviceControl* simulated_device_control(void);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-redundant-void-arg,modernize-deprecated-headers) */

#endif
