# Varnish before a zoo: it keeps what every visitor asks for, and forgets what was denied at once.
# Needs the package varnish-modules. Of the gateways:
#   KERNELZOO_PURGE=varnish, KERNELZOO_PURGE_URL=http://varnish.example (all of them, with commas between)
#   KERNELZOO_TRUSTED_PROXIES=Varnish's address as the gateway sees it, KERNELZOO_TRUSTED_HOPS=1
vcl 4.1;

import std;
import xkey;

backend zoo {
  .host = "127.0.0.1";
  .port = "8787";
  # Agents wait for work for up to 25 s.
  .first_byte_timeout = 40s;
}

# The gateways, which alone may purge.
acl gateways {
  "127.0.0.1";
}

sub vcl_recv {
  if (req.method == "PURGE") {
    if (client.ip !~ gateways) {
      return (synth(403, "this address may not purge"));
    }
    if (req.http.Soft-Purge) {
      set req.http.gone = xkey.softpurge(req.http.Surrogate-Key);
    } else {
      set req.http.gone = xkey.purge(req.http.Surrogate-Key);
    }
    return (synth(200, req.http.gone + " answers are forgotten or asked for again"));
  }
  # What is somebody's own, or changes with every request, is never kept.
  if (req.method != "GET" && req.method != "HEAD") {
    return (pass);
  }
  if (req.url !~ "^/(v1/zoo/|v1/artifacts/|v1/blobs/|v1/models/[^/]+/|v1/graphs/|v1/denied/|v1/signing-keys$|client/)") {
    return (pass);
  }
  # No answer of these depends on who asks.
  unset req.http.Cookie;
  unset req.http.Authorization;
  return (hash);
}

sub vcl_backend_response {
  set beresp.http.xkey = beresp.http.Surrogate-Key;
  # While the gateway does not answer, an old answer is better than none: `stale-if-error` says for how
  # long. Else it is given while a new one is fetched for as long as `stale-while-revalidate` says, which
  # Varnish reads as `grace`.
  set beresp.keep = 1d;
  if (beresp.status >= 500 && bereq.is_bgfetch) {
    return (abandon);
  }
}

sub vcl_deliver {
  set resp.http.X-Cache = "MISS";
  if (obj.hits > 0) {
    set resp.http.X-Cache = "HIT";
  }
  unset resp.http.xkey;
  unset resp.http.Surrogate-Key;
  unset resp.http.Cache-Tag;
}
