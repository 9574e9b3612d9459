"""Serve a WSGI application of OpenStack on loopback, in the environment of the laboratory: wsgi.py MODULE PORT [PREFIX]

Such a module reads its options from sys.argv and from the environment when it is imported.
"""

import importlib
import sys

module, port, prefix = sys.argv[1], int(sys.argv[2]), "".join(sys.argv[3:])
sys.argv = [module]
application = importlib.import_module(module).application
importlib.import_module("waitress").serve(
    application, host="127.0.0.1", port=port, url_prefix=prefix, threads=6, ident=module
)
