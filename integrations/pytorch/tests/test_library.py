# SPDX-License-Identifier: Apache-2.0
"""The C interface from Python. Run twice: under `thermocline run --simulate reference --`, and without the library."""

import ctypes
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import thermocline
from thermocline._version import VERSION


class Device:
    """The driver by ctypes, as far as allocations need it."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        for code in (
            self.driver.cuInit(0),
            self.driver.cuDeviceGet(ctypes.byref(device), 0),
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            self.driver.cuCtxSetCurrent(context),
        ):
            assert code == 0, code

    def allocate(self, size: int) -> tuple[int, int]:
        address = ctypes.c_uint64()
        return self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), address.value

    def free(self, address: int) -> int:
        return self.driver.cuMemFree_v2(ctypes.c_uint64(address))


@unittest.skipUnless(thermocline.is_loaded(), "needs: thermocline run --simulate reference -- python3 test_library.py")
class UnderTheLibrary(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.device = Device()
        code, cls.first = cls.device.allocate(3 << 20)
        assert code == 0, code

    def test_version_and_activity(self) -> None:
        self.assertEqual(thermocline.version(), VERSION)
        self.assertTrue(thermocline.is_active())

    def test_statistics_follow_an_allocation_under_every_name(self) -> None:
        before = thermocline.statistics()["live_bytes"]
        code, address = self.device.allocate(5 << 20)
        self.assertEqual(code, 0)
        self.assertEqual(thermocline.statistics()["live_bytes"] - before, 5 << 20)
        self.assertGreaterEqual(thermocline.statistics("pytorch")["allocated_bytes.all.current"], 8 << 20)
        self.assertGreaterEqual(thermocline.statistics("tensorflow")["bytes_in_use"], 8 << 20)
        self.assertEqual(self.device.free(address), 0)
        self.assertEqual(thermocline.statistics()["live_bytes"], before)

    def test_peaks_can_be_reset(self) -> None:
        _, address = self.device.allocate(64 << 20)
        self.device.free(address)
        self.assertGreaterEqual(thermocline.statistics()["peak_live_bytes"], 64 << 20)
        thermocline.reset_peaks()
        self.assertLess(thermocline.statistics()["peak_live_bytes"], 64 << 20)

    def test_other_names_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "'cupy' is none of thermocline, pytorch, tensorflow"):
            thermocline.statistics("cupy")

    def test_a_pinned_buffer_is_counted_and_other_addresses_are_refused(self) -> None:
        thermocline.pin(self.first)
        self.assertGreaterEqual(thermocline.statistics()["pinned_buffers"], 1)
        with self.assertRaises(thermocline.ThermoclineError) as refused:
            thermocline.pin(1)
        self.assertEqual(refused.exception.code, 1)

    def test_what_is_not_needed_for_a_while_is_sent_away(self) -> None:
        self.assertTrue(thermocline.sees_operations())
        self.assertTrue(thermocline.path().endswith("libthermocline.so.1"))
        self.assertIs(thermocline.load("no such file"), thermocline.load())
        code, address = self.device.allocate(64 << 20)
        self.assertEqual(code, 0)
        self.assertEqual(self.device.driver.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(5), ctypes.c_size_t(64 << 20)), 0)
        before = thermocline.statistics()["evicted_bytes"]
        thermocline.evict(address + 7)
        self.assertEqual(thermocline.statistics()["evicted_bytes"] - before, 64 << 20)
        self.assertTrue(thermocline.prefetch(address))
        with self.assertRaises(thermocline.ThermoclineError) as refused:
            thermocline.prefetch(1)
        self.assertEqual(refused.exception.code, 1)
        self.device.free(address)

    def test_sleep_and_wake(self) -> None:
        code, address = self.device.allocate(64 << 20)
        self.assertEqual(code, 0)
        self.assertEqual(self.device.driver.cuMemsetD8_v2(ctypes.c_uint64(address), 7, ctypes.c_size_t(64 << 20)), 0)
        report = thermocline.sleep()
        self.assertEqual(report["device_bytes"], report["pinned_bytes"])
        self.assertEqual(report["asleep_bytes"], 64 << 20)
        self.assertEqual(thermocline.statistics()["device_bytes"], report["device_bytes"])
        self.assertEqual(thermocline.wake()["device_bytes"], report["device_bytes"] + (64 << 20))
        self.device.free(address)

    def test_what_has_a_tag_sleeps_alone(self) -> None:
        addresses = {}
        for name, tag in (("weights", "weights"), ("cache", None)):
            thermocline.tag(tag)
            code, addresses[name] = self.device.allocate(32 << 20)
            thermocline.tag(None)
            self.assertEqual(code, 0)
            self.assertEqual(self.device.driver.cuMemsetD8_v2(ctypes.c_uint64(addresses[name]), 7, ctypes.c_size_t(32 << 20)), 0)
        self.assertEqual(thermocline.sleep("weights")["asleep_bytes"], 32 << 20)
        thermocline.tag_buffer(addresses["cache"], "kv")
        self.assertEqual(thermocline.sleep(tag="kv")["asleep_bytes"], 32 << 20)
        self.assertEqual(thermocline.wake("weights")["copied_bytes"], 32 << 20)
        self.assertEqual(thermocline.wake("kv")["asleep_bytes"], 0)
        with self.assertRaises(thermocline.ThermoclineError) as refused:
            thermocline.sleep("nobody's")
        self.assertEqual(refused.exception.code, 500)
        for address in addresses.values():
            self.device.free(address)

    def test_steps_and_trimming(self) -> None:
        thermocline.step()
        thermocline.trim()

    def test_a_refusal_is_reported_to_the_callback(self) -> None:
        reports: list[str] = []
        thermocline.on_out_of_memory(reports.append)
        code, _ = self.device.allocate(1 << 45)
        thermocline.on_out_of_memory(None)
        self.assertEqual(code, 2)
        self.device.allocate(1 << 45)
        self.assertEqual(len(reports), 1)
        self.assertIn("out of memory", reports[0])


@unittest.skipIf(thermocline.is_loaded(), "the library is there")
class WithoutTheLibrary(unittest.TestCase):
    def test_everything_says_so(self) -> None:
        self.assertFalse(thermocline.is_active())
        self.assertFalse(thermocline.sees_operations())
        with self.assertRaisesRegex(thermocline.NotFoundError, "not at /no/such/file: install the wheel"):
            thermocline.load("/no/such/file")
        for function in (
            thermocline.version,
            thermocline.statistics,
            thermocline.step,
            thermocline.trim,
            thermocline.sleep,
            thermocline.wake,
        ):
            with self.assertRaisesRegex(thermocline.NotLoadedError, "thermocline run -- python"):
                function()


if __name__ == "__main__":
    unittest.main()
