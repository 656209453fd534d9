/** The conversation, kept for as long as the tab lives. */

export interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

const KEY = "kernelzoo-chat";

export function readHistory(): Message[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}

export function keepHistory(messages: readonly Message[]): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(messages));
  } catch {
    // The browser keeps nothing; the conversation is that of this page.
  }
}
