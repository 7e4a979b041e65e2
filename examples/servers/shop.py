"""A shop for payment.yaml, and a provider for provision.yaml: python3 examples/servers/shop.py [PORT]

POST /orders       takes {"order": 17, "answer_to": URL}, and pays a moment later by a POST to that URL
POST /THINGS       makes a thing and gives {"id": N}; names are taken already: 409
POST /THINGS/remove  takes {"id": N}
A request with an Idempotency-Key that it knows is answered as before, and does nothing. Each request is a line on standard output, after a line with the port.
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def pay(address):
    body = b'{"status": "paid"}'
    urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "application/json"}))


class Shop(BaseHTTPRequestHandler):
    made = 0
    known = {}
    lock = threading.Lock()

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Shop.lock:
            key = self.headers["Idempotency-Key"]
            if key not in Shop.known:
                Shop.known[key] = self.act(body)
            status, value = Shop.known[key]
        self.answer(status, value)

    def act(self, body):
        if self.path == "/orders":
            threading.Timer(0.3, pay, [body["answer_to"]]).start()
            return 201, {"order": body["order"]}
        if self.path == "/names":
            return 409, {"error": "the name is taken"}
        if self.path.endswith("/remove"):
            return 200, {"removed": self.path}
        Shop.made += 1
        return 201, {"id": Shop.made}

    def log_request(self, code="-", size="-"):
        print(self.command, self.path, int(code), flush=True)


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8017), Shop)
print(server.server_port, flush=True)
server.serve_forever()
