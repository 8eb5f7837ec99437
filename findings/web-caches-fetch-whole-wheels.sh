#!/usr/bin/env bash
# nginx 1.22.1, Varnish 7.1.1 and Apache 2.4.71 (Debian 12) as caches in front of a server that answers ranges, with a wheel of 50 MB.
# Expected: a request to a cache for the last 16 KB of a wheel that it lacks, as uv makes it for METADATA, and readers of zips, costs the server 16 KB.
# Seen: nginx and Varnish take the range out of the request, ask for all of the wheel, and answer when the end has arrived. Behind them, an installer
# that looks at five wheels of 3 GB and installs none waits for 15 GB. A second request is answered by the cache. Apache passes the range on, and
# keeps no part: 16 KB each time, and nothing is cached before a request for the whole.
. "$(dirname "$0")/common.sh"
recorded <<'END'
nginx, first request for 16 KB: gets 16,384 bytes, the server is asked for 50,000,000
nginx, second request for 16 KB: gets 16,384 bytes, the server is asked for 0
Varnish, first request for 16 KB: gets 16,384 bytes, the server is asked for 50,000,000
Varnish, second request for 16 KB: gets 16,384 bytes, the server is asked for 0
Apache, first request for 16 KB: gets 16,384 bytes, the server is asked for 16,384
Apache, second request for 16 KB: gets 16,384 bytes, the server is asked for 16,384
END
command -v gcc >/dev/null || unavailable "no gcc, by which Varnish compiles its configuration"
debs nginx=1.22.1-9+deb12u11 varnish=7.1.1-2+deb12u1 libvarnishapi3=7.1.1-2+deb12u1 libjemalloc2=5.3.0-1 libpcre2-8-0=10.42-1+deb12u2 \
    apache2-bin=2.4.71-1~deb12u1 libapr1=1.7.2-3+deb12u1 libaprutil1=1.6.3-1+deb12u1 liblua5.3-0=5.3.6-2
mkdir "$work/site" "$work/nginx" "$work/varnish" "$work/apache"
head -c 50000000 /dev/zero >"$work/site/x.whl"
touch "$work/log"
serve_ranges "$work/site" "$work/log"
origin=$url
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/nginx.conf" <<END
daemon off;
user root;
pid nginx/pid;
events {}
http {
    access_log off;
    proxy_cache_path nginx/cache keys_zone=zone:1m;
    client_body_temp_path nginx/1;
    proxy_temp_path nginx/2;
    fastcgi_temp_path nginx/3;
    uwsgi_temp_path nginx/4;
    scgi_temp_path nginx/5;
    server {
        listen 127.0.0.1:$port;
        location / {
            proxy_pass $origin;
            proxy_cache zone;
            proxy_cache_valid 200 206 1h;
        }
    }
}
END
cat >"$work/varnish.vcl" <<END
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "${origin##*:}"; }
END
modules=$work/root/usr/lib/apache2/modules
cat >"$work/apache.conf" <<END
ServerName localhost
ServerRoot $work/apache
PidFile pid
ErrorLog $work/errors
Listen 127.0.0.1:$port
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule proxy_module $modules/mod_proxy.so
LoadModule proxy_http_module $modules/mod_proxy_http.so
LoadModule cache_module $modules/mod_cache.so
LoadModule cache_disk_module $modules/mod_cache_disk.so
CacheRoot $work/apache
CacheEnable disk /
CacheMaxFileSize 500000000
CacheIgnoreNoLastMod On
ProxyPass / $origin/
END
cat >"$work/ask.py" <<'END'
"""Asks a cache for the end of the wheel, and tells what the server was asked for."""

import os
import sys
import time
import urllib.request

name, url, log, process = sys.argv[1:]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(headers):
    with opener.open(urllib.request.Request(url, headers=headers)) as answer:
        return len(answer.read())


while True:
    try:
        opener.open(url.replace("x.whl", "missing"))
    except urllib.error.HTTPError:
        break
    except OSError:
        os.kill(int(process), 0)
        time.sleep(0.1)
for turn in "first", "second":
    open(log, "w").close()
    size = get({"Range": "bytes=-16384"})
    with open(log) as file:
        asked = sum(int(line.split()[1]) for line in file)
    print(f"{name}, {turn} request for 16 KB: gets {size:,} bytes, the server is asked for {asked:,}")
END
show() { # NAME COMMAND…: runs a cache
    timeout 120 env LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$work/root/usr/lib/varnish" "${@:2}" >"$work/messages" 2>&1 &
    python3 "$work/ask.py" "$1" "http://127.0.0.1:$port/x.whl" "$work/log" $! || unavailable "$1 does not start: $(tail -1 "$work/messages")"
    kill $!
    wait $! || true
}
{
    show nginx "$work/root/usr/sbin/nginx" -e "$work/errors" -p "$work" -c nginx.conf
    show Varnish "$work/root/usr/sbin/varnishd" -F -n "$work/varnish" -f "$work/varnish.vcl" -a "127.0.0.1:$port" -s malloc,200M -j none
    show Apache "$work/root/usr/sbin/apache2" -f "$work/apache.conf" -DFOREGROUND
} >"$work/out"
compare "$work/out"
