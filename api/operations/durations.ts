/** Lengths of time as people write them: 90s, 15m, 6h, 1d. */
const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** The seconds of `6h`. @throws Error */
export function secondsOf(text: string): number {
  const [, count, unit] = /^(\d{1,7})([smhd])$/.exec(text) ?? [];
  if (count === undefined) throw new Error('should be a time such as 90s, 15m, 6h or 1d');
  return Number(count) * SECONDS[unit as keyof typeof SECONDS];
}

/** 21600 as 6h: in the largest unit that leaves no remainder. */
export function durationText(seconds: number): string {
  const unit = (['d', 'h', 'm'] as const).find((one) => seconds > 0 && seconds % SECONDS[one] === 0) ?? 's';
  return `${seconds / SECONDS[unit]}${unit}`;
}
