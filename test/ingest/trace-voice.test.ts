import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seqOf } from '../../ingest/traces/trace-emit.ts';

/** The same by the whole time, whatever its form. */
function slowly(time: string): number | undefined {
  const milliseconds = Date.parse(time);
  const fraction = (/\.(\d+)/.exec(time)?.[1] ?? '').padEnd(6, '0').slice(0, 6);
  return Number.isNaN(milliseconds) ? undefined : Math.floor(milliseconds / 1000) * 1e6 + Number(fraction);
}

describe('the order of acts', () => {
  it('is that of their times, in microseconds since 1970, in whatever form and after whatever other time', () => {
    const digits = (n: number) => String(n).padStart(2, '0');
    const time = fc
      .record({
        day: fc.constantFrom('2026-09-10', '1969-12-31', '2024-02-29', '2026-02-31', '0001-01-01'),
        hour: fc.integer({ min: 0, max: 24 }),
        second: fc.integer({ min: 0, max: 60 }),
        fraction: fc.constantFrom('', '.0', '.5', '.123456', '.123456789', '.999999999'),
        zone: fc.constantFrom('Z', 'z', '+02:00', ''),
      })
      .map(({ day, hour, second, fraction, zone }) => `${day}T${digits(hour)}:00:${digits(second)}${fraction}${zone}`);
    fc.assert(
      fc.property(fc.array(time, { minLength: 1, maxLength: 5 }), (times) => {
        expect(times.map(seqOf)).toEqual(times.map(slowly));
      }),
      { numRuns: 500 },
    );
    expect(seqOf(null)).toBeUndefined();
    expect(seqOf('1970-01-01T00:00:01.000002Z')).toBe(1_000_002);
  });
});
