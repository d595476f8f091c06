/** Brings `dist` up to the sources, and returns the path of its cli.js. */
export function ensureBuilt(): Promise<string>;

/** The program cannot be started; the message says what to do. */
export class NotBuilt extends Error {}
