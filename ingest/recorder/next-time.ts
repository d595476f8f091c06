let last = 0;

/** Now, in microseconds, and later than any time before: what a program does within a millisecond stays in order. */
export function nextTime(): string {
  last = Math.max(last + 1, Date.now() * 1000);
  const micros = String(last % 1000).padStart(3, '0');
  return new Date(Math.floor(last / 1000)).toISOString().replace('Z', `${micros}Z`);
}
