# SPDX-License-Identifier: Apache-2.0
"""The package's own version; a test compares it with the library's."""

VERSION = "0.1.0"
