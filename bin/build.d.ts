/** Brings `dist` up to the sources, and returns the path of its cli.js. */
export function ensureBuilt(): Promise<string>;
