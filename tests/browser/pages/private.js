/** As in private windows of Firefox and Safari, which have no such files. */
navigator.storage.getDirectory = async () => {
  throw new DOMException("", "SecurityError");
};
