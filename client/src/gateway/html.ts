/** Tells pages of HTML from the files in whose place hosts and networks send them. */

export const beginsAsHtml = (text: string): boolean => /^\s*<(!doctype|html)\b/i.test(text);

/** One sentence for whoever asked for a file and got a page. */
export const htmlSentence = (url: URL | string): string =>
  `${url} answered with a page of HTML: there is no such file, or the network wants a login first.`;
