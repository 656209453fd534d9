/** Tells pages of HTML from the files in whose place hosts and networks send them. */

const BEGINNING = /^\s*(<!doctype\s+html|<html)\b/i;

export const isHtml = (type: string | null, text: string): boolean =>
  /^text\/html\b/i.test(type ?? "") || BEGINNING.test(text);

/** One sentence for whoever asked for a file and got a page. */
export const htmlSentence = (url: URL | string): string =>
  `${url} answered with a page of HTML: the host has no such file and answers everything, or the ` +
  "network wants a login first.";
