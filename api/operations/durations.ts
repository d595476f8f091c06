/** Lengths of time as people write them: 90s, 15m, 6h, 1d. */
const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** The seconds of `6h`. @throws Error */
export function secondsOf(text: string): number {
  const [, count, unit] = /^(\d{1,7})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new Error('should be a time such as 90s, 15m, 6h or 1d');
  return Number(count) * SECONDS[unit as keyof typeof SECONDS];
}

/** No longer than a calendar of four digits. */
const LONGEST_S = 36_500 * SECONDS.d;
const LIFETIME = /^(\d{1,6})([mhdwy])$/;
const LIFETIMES = { ...SECONDS, w: 604_800, y: 31_536_000 } as const;

/** The seconds of `90d`; null for `never`. @throws Error */
export function lifetimeOf(text: string): number | null {
  if (text === 'never') return null;
  const [, count, unit] = LIFETIME.exec(text) ?? [];
  const seconds = Number(count) * LIFETIMES[unit as keyof typeof LIFETIMES];
  if (seconds > 0 && seconds <= LONGEST_S) return seconds;
  throw new Error('should be a time such as 90d, 12h, 4w, 1y, or never');
}

const MOMENT = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** `90d`: so long before now; or a date, or a time with its zone. @throws Error */
export function momentOf(text: string, now: Date): Date {
  const [, count, unit] = LIFETIME.exec(text) ?? [];
  const at = MOMENT.test(text)
    ? Date.parse(text)
    : Math.max(0, now.getTime() - 1000 * Number(count) * LIFETIMES[unit as keyof typeof LIFETIMES]);
  if (!Number.isNaN(at)) return new Date(at);
  throw new Error('should be such as 90d, 12h, 4w or 1y, a date such as 2026-01-31, or a time with its zone');
}

/** 21600 as 6h: in the largest unit that leaves no remainder. */
export function durationText(seconds: number): string {
  const unit = (['d', 'h', 'm'] as const).find((one) => seconds > 0 && seconds % SECONDS[one] === 0) ?? 's';
  return `${seconds / SECONDS[unit]}${unit}`;
}
