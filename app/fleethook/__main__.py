"""``python -m fleethook``, and the program of the package."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # `main` handles Ctrl-C. The import before it takes a moment, and a KeyboardInterrupt within it prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from fleethook.cli.command_line import main

if __name__ == "__main__":
    main()
