# SPDX-License-Identifier: Apache-2.0
"""A process without the library opens it: the one at THERMOCLINE_TEST_LIBRARY, else the one that the package carries. Run
under `thermocline run --simulate reference --no-library --`."""

import ctypes
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import thermocline


class OpenedLate(unittest.TestCase):
    def test_it_allocates_counts_and_moves_nothing(self) -> None:
        self.assertFalse(thermocline.is_loaded())
        library = thermocline.load(os.environ.get("THERMOCLINE_TEST_LIBRARY"))
        self.assertTrue(thermocline.is_loaded())
        self.assertFalse(thermocline.sees_operations())
        self.assertFalse(thermocline.is_active())
        library.thermocline_allocate.restype = ctypes.c_void_p
        library.thermocline_allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        library.thermocline_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        address = library.thermocline_allocate(5 << 20, 0, None)
        self.assertTrue(address)
        self.assertTrue(thermocline.is_active())
        self.assertEqual(thermocline.statistics()["live_bytes"], 5 << 20)
        with self.assertRaises(thermocline.ThermoclineError) as refused:
            thermocline.evict(address)
        self.assertEqual(refused.exception.code, 801)
        self.assertIn("it was not preloaded", str(refused.exception))
        library.thermocline_free(address, 5 << 20, 0, None)
        self.assertEqual(thermocline.statistics()["live_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
