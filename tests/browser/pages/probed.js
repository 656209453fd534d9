/** As at a second visit: the probe has been noted. */
{
  const read = Storage.prototype.getItem;
  const probed = { rho: "r101-0", peakGflops: 1, bandwidthGbps: 8, dispatchUs: 1, settled: true };
  Storage.prototype.getItem = function (key) {
    return key.startsWith("kernelzoo:gpu-probe") ? JSON.stringify(probed) : read.call(this, key);
  };
}
