"""Start the server: ``python server.py [options]``. Importing this module does nothing."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal; returns the exit status."""
    # Imported here, so that --help and mistakes in options answer at once.
    from Middleware.api.options import parse_options

    options = parse_options(arguments)

    from Middleware.api.log_output import add_log_files, configure_logging
    from Middleware.api.serving import StopSignal, serve
    from Middleware.app import create_app
    from Middleware.core.errors import ConfigError

    log = configure_logging(options.log_format, options.log_level)
    stop = StopSignal()
    stop.listen()
    try:
        app = create_app(options)
        if app.log_directory is not None:
            add_log_files(log, options.log_format, app.log_directory)
        return serve(app, options, stop, sys.stdout)
    except ConfigError as error:
        log.flush()
        print(f"Cannot start: {error.message}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
