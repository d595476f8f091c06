/** Numbers of bytes as people write and read them. */

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `1.5 GiB`: three digits at most, and whole bytes below a KiB. */
export function bytesText(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : Number(value.toPrecision(3))} ${UNITS[power]}`;
}

const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?$/i;

/** The bytes of `500MB` (powers of 1000), `2GiB` (powers of 1024) or a plain number. @throws Error */
export function bytesOf(text: string): number {
  const match = SIZE.exec(text.trim());
  if (!match) throw new Error('should be a size such as 500MB or 2GiB');
  const [, number, unit = '', binary = ''] = match;
  const power = 1 + 'KMGT'.indexOf(unit.toUpperCase());
  const value = Math.floor(Number(number) * (binary ? 1024 : 1000) ** (unit === '' ? 0 : power));
  if (value > 0 && Number.isSafeInteger(value)) return value;
  throw new Error('should be above 0 bytes');
}
