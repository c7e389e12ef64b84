# SPDX-License-Identifier: Apache-2.0
"""`python -m thermocline`, and the script `thermocline`: the command that the wheel carries, in place of this process."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "bin", "thermocline")
    if not os.access(command, os.X_OK):
        print(f"thermocline: this installation carries no command ({command})", file=sys.stderr)
        sys.exit(127)
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
