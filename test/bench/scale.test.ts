import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { assumptionsIn } from '../../bench/scale.ts';
import { DEFAULTS, deploy, simulate } from '../../bench/scale-model.ts';

describe('the simulation of projectors', () => {
  /** Half of what a projector computes is done while the server writes for 30 µs: 50 + max(50, 30) = 100 µs an event. */
  const given = { ...DEFAULTS, project_us: 100, postgres_us: 30, overlap: 0.5, events_an_episode: 1 };

  it('gives one projector with processors enough the rate of its longest way', () => {
    expect(simulate(given, { projectors: 1, cores: 2, events: 20_000 })).toBeCloseTo(10_000, 6);
  });

  it('gives any number on one processor the rate of all their work: 130 µs an event', () => {
    for (const projectors of [1, 2, 4])
      expect(simulate(given, { projectors, cores: 1, events: 20_000 })).toBeCloseTo(1e6 / 130, 6);
  });

  it('gives several with processors enough the rate of the one that has most to do', () => {
    const rate = simulate({ ...given, partitions: 4 }, { projectors: 4, cores: 16, events: 20_000 });
    expect(rate).toBeGreaterThan(37_000);
    expect(rate).toBeLessThan(40_000);
  });
});

describe('what a size needs', () => {
  const given = {
    ...DEFAULTS,
    ...{ events_a_day: 86_400, peak: 10, use: 0.5, ingest_us: 60, project_us: 100, postgres_us: 50 },
    ...{ stored_bytes: 1000, hot_days: 10, disk_gb_a_node: 1000, cores_a_node: 4, partitions: 16 },
  };

  it('is one machine, with its log in a table, for ten events a second', () => {
    expect(deploy(given, 1)).toMatchObject({
      ...{ events_a_second_at_peak: 10, ingest: 1, projectors: 1, brokers: 0, partitions: 16 },
      postgres: { nodes: 1, cores: expect.closeTo(0.001, 9), disk_gb: expect.closeTo(0.864, 9) },
    });
  });

  it('is counted from the peak and from what is kept', () => {
    // 100,000 events/s: 6 s of ingest and 10 of projectors in a second, twice as many processors; 8.64 TB in ten days.
    expect(deploy(given, 10_000)).toMatchObject({
      ...{ events_a_second_at_peak: 100_000, ingest: 12, projectors: 20, partitions: 64 },
      postgres: { nodes: 9, cores: expect.closeTo(10, 9), disk_gb: expect.closeTo(8640, 9) },
    });
  });
});

describe('a file of assumptions', () => {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-scale-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = (text: string): string => {
    const path = join(folder, 'mine.yaml');
    writeFileSync(path, text);
    return path;
  };

  it('replaces those that it names', () => {
    expect(assumptionsIn(file('hot_days: 7\n'))).toEqual({ ...DEFAULTS, hot_days: 7 });
    expect(assumptionsIn(null)).toEqual(DEFAULTS);
  });

  it.each(['hot_dayz: 7', 'hot_days: week', 'use: 0', 'overlap: 2', '- 1', '', 'a: [', '7'])(
    'is refused with what was expected: %j',
    (text) => {
      expect(() => assumptionsIn(file(text))).toThrowError(expect.objectContaining({ code: 'usage' }));
    },
  );

  it('is refused where it is not there', () => {
    expect(() => assumptionsIn(join(folder, 'none.yaml'))).toThrowError(expect.objectContaining({ code: 'usage' }));
  });
});
