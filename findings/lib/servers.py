"""Serves a folder by one of many programs: the installed ones of Debian, and frameworks of Python, which run as servers.py NAME FOLDER PORT."""

import contextlib
import os
import socket
import subprocess
import sys
import time

FRAMEWORKS = "aiohttp", "Bottle", "CherryPy", "Flask", "RangeHTTPServer", "Starlette", "Tornado", "Twisted"


def _commands(folder, port, root, work):
    """The commands by name; `root` is where packages of Debian are unpacked, `work` gets configurations."""
    configurations = {
        "lighttpd": f'server.document-root = "{folder}"\nserver.port = {port}\nserver.bind = "127.0.0.1"\nserver.modules = ()\n',
        "h2o": f'listen: {{host: 127.0.0.1, port: {port}}}\nuser: root\nhosts: {{default: {{paths: {{/: {{file.dir: "{folder}"}}}}}}}}\n',
    }
    for name, text in configurations.items():
        with open(f"{work}/{name}.conf", "w") as file:
            file.write(text)
    return {
        "BusyBox": [f"{root}/bin/busybox", "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", folder],
        "h2o": [f"{root}/usr/bin/h2o", "-c", f"{work}/h2o.conf"],
        "lighttpd": [f"{root}/usr/sbin/lighttpd", "-D", "-f", f"{work}/lighttpd.conf", "-m", f"{root}/usr/lib/lighttpd"],
        "webfs": [f"{root}/usr/bin/webfsd", "-F", "-p", str(port), "-i", "127.0.0.1", "-r", folder],
        **{name: [sys.executable, __file__, name, folder, str(port)] for name in FRAMEWORKS},
    }


@contextlib.contextmanager
def server(name, folder, root, work):
    """The address of a server of the folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open(f"{work}/{name}.log", "w") as log:
        process = subprocess.Popen(_commands(folder, port, root, work)[name], stdout=log, stderr=log)
    try:
        while True:
            assert process.poll() is None, f"{name} does not start"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _serve(name, folder, port):
    """Runs a framework with its own way to serve files."""
    address = {"host": "127.0.0.1", "port": port}
    if name == "aiohttp":
        from aiohttp import web

        application = web.Application()
        application.router.add_static("/", folder)
        web.run_app(application, **address)
    elif name == "Bottle":
        import bottle

        application = bottle.Bottle()
        application.route("/<path:path>")(lambda path: bottle.static_file(path, root=folder))
        application.run(**address)
    elif name == "CherryPy":
        import cherrypy

        cherrypy.config.update({"server.socket_host": address["host"], "server.socket_port": port})
        cherrypy.quickstart(None, "/", {"/": {"tools.staticdir.on": True, "tools.staticdir.dir": folder}})
    elif name == "Flask":
        import flask

        application = flask.Flask("files")
        application.route("/<path:path>")(lambda path: flask.send_from_directory(folder, path))
        application.run(**address)
    elif name == "RangeHTTPServer":
        import http.server

        from RangeHTTPServer import RangeRequestHandler

        os.chdir(folder)
        http.server.ThreadingHTTPServer((address["host"], port), RangeRequestHandler).serve_forever()
    elif name == "Starlette":
        import uvicorn
        from starlette.staticfiles import StaticFiles

        uvicorn.run(StaticFiles(directory=folder), **address)
    elif name == "Tornado":
        import tornado.ioloop
        import tornado.web

        tornado.web.Application([("/(.*)", tornado.web.StaticFileHandler, {"path": folder})]).listen(port, address["host"])
        tornado.ioloop.IOLoop.current().start()
    elif name == "Twisted":
        from twisted.internet import reactor
        from twisted.web import server as web
        from twisted.web import static

        reactor.listenTCP(port, web.Site(static.File(folder)), interface=address["host"])
        reactor.run()


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
