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
  # While a new answer is fetched an old one is given for a minute, as manifests say
  # (`stale-while-revalidate`); where no gateway answered (vcl_deliver), for as long as it is there.
  set req.grace = 1m;
  if (req.restarts > 0) {
    set req.grace = 1d;
  }
  # No answer of these depends on who asks.
  unset req.http.Cookie;
  unset req.http.Authorization;
  return (hash);
}

sub vcl_backend_response {
  set beresp.http.xkey = beresp.http.Surrogate-Key;
  if (beresp.status >= 500) {
    if (bereq.is_bgfetch) {
      return (abandon);
    }
    # Not kept for a moment: an old answer would lie behind it.
    set beresp.ttl = 0s;
    set beresp.grace = 0s;
    return (deliver);
  }
  if (!beresp.http.Cache-Control) {
    # Errors, and what changes all the time: Varnish would keep it for two minutes.
    set beresp.uncacheable = true;
    return (deliver);
  }
  # For how long an old answer is there; for how long it is given, vcl_recv says.
  if (beresp.http.Cache-Control ~ "stale-if-error=[0-9]+") {
    set beresp.grace = std.duration(
      regsub(beresp.http.Cache-Control, "^.*stale-if-error=([0-9]+).*$", "\1s"), 0s);
  }
}

sub vcl_backend_error {
  set beresp.http.Unanswered = "1";
  set beresp.ttl = 0s;
  set beresp.grace = 0s;
}

sub vcl_deliver {
  if (resp.http.Unanswered && req.restarts == 0 && (req.method == "GET" || req.method == "HEAD")) {
    return (restart);
  }
  unset resp.http.Unanswered;
  set resp.http.X-Cache = "MISS";
  if (obj.hits > 0) {
    set resp.http.X-Cache = "HIT";
  }
  unset resp.http.xkey;
  unset resp.http.Surrogate-Key;
  unset resp.http.Cache-Tag;
}
