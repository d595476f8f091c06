import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cronTicks, type Ticks } from '../../../store/queue/schedules/cron.ts';
import { checkedDefinition } from '../../../store/queue/schedules/definition.ts';
import type { ScheduleDefinition } from '../../../store/queue/schedules/definition-schema.ts';
import { type Decision, due, instantOf, jitterOf, nextTimes, withinHours } from '../../../store/queue/schedules/due.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Nights on which clocks change, by zone: three days around each. */
const NIGHTS = [
  ['Europe/Berlin', '2026-03-28T00:00:00Z'],
  ['Europe/Berlin', '2026-10-24T00:00:00Z'],
  ['America/New_York', '2026-03-07T00:00:00Z'],
  ['America/New_York', '2026-10-31T00:00:00Z'],
  // Half an hour: 02:00 becomes 02:30, and 02:00 becomes 01:30.
  ['Australia/Lord_Howe', '2026-10-03T00:00:00Z'],
  ['Australia/Lord_Howe', '2026-04-04T00:00:00Z'],
] as const;
const night = fc.constantFrom(...NIGHTS);

/** Every minute of three days with its date and minute of the day in the zone: another implementation of time zones than the one tested. */
const minutesOf = (zone: string, from: string) => {
  const format = new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'short' });
  const start = Date.parse(from);
  return Array.from({ length: (3 * DAY) / MINUTE }, (_, i) => {
    const time = start + i * MINUTE;
    const [date, clock] = format.format(time).split(' ');
    const [hour, minute] = clock!.split(':').map(Number);
    return { time, date: date!, minute: hour! * 60 + minute! };
  });
};
const TABLES = new Map(NIGHTS.map(([zone, from]) => [`${zone} ${from}`, minutesOf(zone, from)]));
const between = (ticks: Ticks, from: number, to: number): number[] => {
  const times: number[] = [];
  for (let tick = ticks.next(from - 1); tick !== null && tick < to; tick = ticks.next(tick)) times.push(tick);
  return times;
};

const DAILY: ScheduleDefinition = {
  cron: '0 3 * * *',
  zone: 'UTC',
  job: { kind: 'judge', spec: {} },
  overlap: 'skip',
  catch_up_seconds: 86_400,
  jitter_seconds: 0,
};
const at = (text: string): number => Date.parse(text);
const since = at('2026-01-01T00:00:00Z');

describe('The ticks of a cron expression', () => {
  it('P32: a time of the day comes once on every day, the first time where clocks go back, and at the end of the gap where it does not exist', () => {
    fc.assert(
      fc.property(night, fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }), ([zone, from], h, m) => {
        const minutes = TABLES.get(`${zone} ${from}`)!;
        const days = [...new Set(minutes.map((one) => one.date))].slice(1, -1);
        const expected = days.map((date) => {
          const day = minutes.filter((one) => one.date === date);
          return (day.find((one) => one.minute === h * 60 + m) ?? day.find((one) => one.minute > h * 60 + m))!.time;
        });
        const first = minutes.find((one) => one.date === days[0])!.time;
        const end = minutes.findLast((one) => one.date === days.at(-1))!.time;
        expect(between(cronTicks(`${m} ${h} * * *`, zone), first, end + 1).map(instantOf)).toEqual(
          expected.map(instantOf),
        );
      }),
    );
  });

  it('P32: steps of minutes go through the hour that comes twice, and know nothing of the one that does not exist', () => {
    fc.assert(
      fc.property(night, fc.constantFrom(5, 10, 15, 20, 30, 60), ([zone, from], step) => {
        const minutes = TABLES.get(`${zone} ${from}`)!;
        const expected = minutes.filter(({ minute }) => (minute % 60) % step === 0).map(({ time }) => time);
        const ticks = cronTicks(step === 60 ? '0 * * * *' : `*/${step} * * * *`, zone);
        expect(between(ticks, minutes[0]!.time, minutes.at(-1)!.time + 1)).toEqual(expected);
      }),
      { numRuns: 30 },
    );
  });

  it('are the same whichever time one asks from, forwards and backwards', () => {
    fc.assert(
      fc.property(
        night,
        fc.integer({ min: 0, max: 3 * DAY }),
        fc.integer({ min: 0, max: 23 }),
        ([zone, from], ms, h) => {
          const ticks = cronTicks(`30 ${h} * * *`, zone);
          const time = at(from) + ms;
          const all = between(ticks, at(from) - 2 * DAY, at(from) + 5 * DAY);
          expect(ticks.next(time)).toBe(all.find((tick) => tick > time));
          expect(ticks.latest(time)).toBe(all.findLast((tick) => tick <= time));
        },
      ),
    );
  });

  it.each([
    ['0 3 * *', 'UTC', /five fields/],
    ['*/5 * * * * *', 'UTC', /five fields/],
    ['61 * * * *', 'UTC', /minute: 61/],
    ['0 3 * * *', 'Mars/Base', /IANA/],
  ])('refuses %s in %s', (expression, zone, why) => {
    expect(() => cronTicks(expression, zone)).toThrow(why);
  });
});

describe('A definition', () => {
  it.each([
    [{ every_seconds: 600 }, /either a cron expression or an interval/],
    [{ cron: undefined }, /either a cron expression or an interval/],
    [{ cron: '0 0 30 2 *' }, /never comes/],
    [{ cron: '*/10 * * * *', jitter_seconds: 600 }, /shorter than the 600 s/],
    [{ hours: { from: '08:00', to: '08:00' } }, /are none/],
    [{ hours: { from: '8:00', to: '24:00' } }, /^hours.* but it is /],
    [{ zone: 'Berlin' }, /IANA/],
    [{ catch_up: 5 }, /^A schedule has no "catch_up"/],
  ])('with %j is refused', (change, why) => {
    const written = Object.fromEntries(
      Object.entries({ ...DAILY, ...change }).filter(([, value]) => value !== undefined),
    );
    expect(() => checkedDefinition(written, since)).toThrow(why);
  });
});

describe('The ticks that are due', () => {
  const decide = (definition: ScheduleDefinition, last: string, now: string, running: string | null = null) =>
    due(definition, { name: 'nightly', since, last: at(last), now: at(now), running }).decisions;

  it('are none before the next tick, and the tick at its time', () => {
    expect(decide(DAILY, '2026-05-01T03:00:00Z', '2026-05-02T02:59:59Z')).toEqual([]);
    const fired = [{ action: 'fire', instant: '2026-05-02T03:00:00Z' }];
    expect(decide(DAILY, '2026-05-01T03:00:00Z', '2026-05-02T03:00:00Z')).toEqual(fired);
    expect(decide(DAILY, '2026-05-02T03:00:00Z', '2026-05-02T03:00:30Z')).toEqual([]);
  });

  it('P32: of several missed ticks the last starts its job while it is within the catch-up window', () => {
    expect(decide(DAILY, '2026-05-01T03:00:00Z', '2026-05-05T12:00:00Z')).toEqual([
      expect.objectContaining({
        action: 'skip',
        instant: '2026-05-02T03:00:00Z',
        until: '2026-05-04T03:00:00Z',
        count: 3,
        reason: 'missed',
      }),
      { action: 'fire', instant: '2026-05-05T03:00:00Z' },
    ]);
    const short = { ...DAILY, catch_up_seconds: 3600 };
    expect(decide(short, '2026-05-04T03:00:00Z', '2026-05-05T04:00:00Z')).toMatchObject([{ action: 'fire' }]);
    expect(decide(short, '2026-05-04T03:00:00Z', '2026-05-05T04:00:01Z')).toMatchObject([
      { action: 'skip', reason: 'missed', detail: 'it was 3601 s late, and the catch-up window is 3600 s' },
    ]);
    // A scheduler looks every minute, so a tick of half a minute ago was not missed.
    const none = { ...DAILY, catch_up_seconds: 0 };
    expect(decide(none, '2026-05-04T03:00:00Z', '2026-05-05T03:00:40Z')).toMatchObject([{ action: 'fire' }]);
  });

  it('a tick while the last job has not ended is skipped, or queues another', () => {
    const [last, now] = ['2026-05-01T03:00:00Z', '2026-05-02T03:00:01Z'];
    expect(decide(DAILY, last, now, 'schedule/nightly/x')).toMatchObject([
      { action: 'skip', reason: 'overlap', detail: 'job schedule/nightly/x had not ended' },
    ]);
    expect(decide({ ...DAILY, overlap: 'queue' }, last, now, 'schedule/nightly/x')).toMatchObject([{ action: 'fire' }]);
  });

  it('start their jobs only in the allowed hours, which may pass midnight, in the zone', () => {
    const late = { ...DAILY, zone: 'Europe/Berlin', hours: { from: '22:00', to: '06:00' } };
    // 03:00 in Berlin is 01:00 UTC in summer; a scheduler that comes at 09:00 is too late for it.
    expect(decide(late, '2026-05-01T01:00:00Z', '2026-05-02T01:00:00Z')).toMatchObject([{ action: 'fire' }]);
    expect(decide(late, '2026-05-01T01:00:00Z', '2026-05-02T07:00:00Z')).toMatchObject([
      { action: 'skip', reason: 'outside_hours', detail: 'it was 09:00, and the allowed hours are 22:00 to 06:00' },
    ]);
    const zone = 'UTC';
    const hours = { from: '08:00', to: '17:30' };
    const tried = ['07:59', '08:00', '17:29', '17:30'].map((clock) =>
      withinHours({ zone, hours }, at(`2026-05-02T${clock}:00Z`)),
    );
    expect(tried).toEqual([false, true, true, false]);
  });

  it('P32: whenever the schedulers look, with clocks that step an hour back and forth, each tick is decided once', () => {
    const expressions = ['*/20 * * * *', '30 2 * * *', '15 1,2,3 * * *', '0 * * * *'];
    const step = fc.oneof(fc.integer({ min: 0, max: 90 * MINUTE }), fc.constantFrom(-HOUR, HOUR, 5 * HOUR));
    fc.assert(
      fc.property(
        night,
        fc.constantFrom(...expressions),
        fc.constantFrom(0, 600),
        fc.array(step, { minLength: 1, maxLength: 60 }),
        ([zone, from], cron, jitter_seconds, steps) => {
          const definition = { ...DAILY, cron, zone, jitter_seconds };
          const start = at(from) + 12 * HOUR;
          const decided: Decision[] = [];
          let last = start;
          let now = start;
          for (const ms of steps) {
            now += ms;
            const looked = due(definition, { name: 'n', since: start, last, now, running: null });
            expect(looked.last).toBeGreaterThanOrEqual(last);
            for (const one of looked.decisions) {
              const tick = at(one.instant);
              if (one.action === 'fire')
                expect(tick + jitterOf('n', tick, jitter_seconds * 1000)).toBeLessThanOrEqual(now);
            }
            decided.push(...looked.decisions);
            last = looked.last;
          }
          const ticks = between(cronTicks(cron, zone), start + 1, last + 1);
          const covered = decided.flatMap((one) =>
            ticks.filter(
              (tick) => tick >= at(one.instant) && tick <= at(one.action === 'fire' ? one.instant : one.until),
            ),
          );
          expect(covered).toEqual(ticks);
          for (const one of decided)
            if (one.action === 'skip')
              expect(one.count).toBe(ticks.filter((tick) => tick >= at(one.instant) && tick <= at(one.until)).length);
        },
      ),
    );
  });

  it('an interval goes on by its length from when it was added, whatever the clocks of a zone do', () => {
    const { cron: _, ...rest } = DAILY;
    const hourly = { ...rest, zone: 'Europe/Berlin', every_seconds: 3600 };
    const times = nextTimes(
      hourly,
      {
        name: 'n',
        since: at('2026-03-28T23:30:00Z'),
        last: at('2026-03-28T23:30:00Z'),
        now: at('2026-03-28T23:31:00Z'),
      },
      3,
    );
    expect(times).toEqual(['2026-03-29T00:30:00Z', '2026-03-29T01:30:00Z', '2026-03-29T02:30:00Z']);
  });

  it('more missed ticks than anyone counted have no count', () => {
    const minutely = { ...DAILY, cron: '* * * * *' };
    const [missed] = decide(minutely, '2026-05-01T00:00:00Z', '2026-05-08T00:00:00Z');
    expect(missed).toMatchObject({ instant: '2026-05-01T00:01:00Z', until: '2026-05-07T23:59:00Z', count: null });
  });
});

describe('The jitter of a tick', () => {
  it('is the same for the same schedule and tick, below its limit, and spreads ticks over it', () => {
    const delays = Array.from({ length: 1000 }, (_, i) => jitterOf('nightly', since + i * DAY, HOUR));
    expect(delays).toEqual(Array.from({ length: 1000 }, (_, i) => jitterOf('nightly', since + i * DAY, HOUR)));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...delays)).toBeLessThan(HOUR);
    // The mean of 1,000 even draws from an hour lies within 6 standard errors (HOUR / sqrt(12 * 1000)) of half an hour.
    const mean = delays.reduce((sum, delay) => sum + delay, 0) / delays.length;
    expect(Math.abs(mean - HOUR / 2)).toBeLessThan((6 * HOUR) / Math.sqrt(12_000));
    expect(jitterOf('nightly', since, HOUR)).not.toBe(jitterOf('weekly', since, HOUR));
  });
});
