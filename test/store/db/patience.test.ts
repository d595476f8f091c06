import { expect, it } from 'vitest';
import { TroupeError } from '../../../errors.ts';
import { openKafka } from '../../../ingest/log/kafka.ts';
import { environmentError, isTransient } from '../../../store/db/faults.ts';
import { patiently } from '../../../store/db/patience.ts';

const failing = (times: number, error: unknown) => {
  let calls = 0;
  return {
    calls: () => calls,
    work: async () => {
      if (++calls <= times) throw error;
      return calls;
    },
  };
};
const lost = Object.assign(new Error('Connection terminated unexpectedly'));
/** What the client itself says of brokers that nobody runs. */
const brokersAway = async (): Promise<unknown> =>
  openKafka({ brokers: '127.0.0.1:1', topic: 'team', tls: false, sasl: null })
    .admin()
    .connect()
    .catch((error: unknown) => error);
const full = Object.assign(new Error('could not extend file "base/1": No space left on device'), { code: '53100' });

it.each([
  ['a lost connection', lost],
  ['a full disk of the server', full],
  [
    'a full disk of this machine',
    Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }),
  ],
  ['a server that cannot be reached', new TroupeError('unreachable', 'Nothing answers.')],
])('%s is tried again until it works, and each failure is reported', async (_, error) => {
  const troubles: unknown[] = [];
  const { work } = failing(2, error);
  expect(await patiently(work, { onTrouble: (trouble) => troubles.push(trouble) })).toBe(3);
  expect(troubles).toEqual([error, error]);
});

it('an error of the data or the program is thrown at once', async () => {
  const { work, calls } = failing(1, Object.assign(new Error('value too long'), { code: '22001' }));
  await expect(patiently(work)).rejects.toThrow('value too long');
  expect(calls()).toBe(1);
});

it('patience that has ended gives the last failure, and a signal ends the waiting', async () => {
  const { work, calls } = failing(1000, lost);
  await expect(patiently(work, { forMs: 250 })).rejects.toBe(lost);
  expect(calls()).toBeGreaterThan(1);
  const stop = new AbortController();
  const waiting = patiently(work, { signal: stop.signal, onTrouble: () => stop.abort() });
  await expect(waiting).rejects.toMatchObject({ code: 'interrupted' });
});

it('failures of the environment have a code and a sentence, and others keep their stack', () => {
  expect(environmentError(full)).toMatchObject({
    code: 'disk_full',
    message: expect.stringMatching(/^The disk of PostgreSQL is full/),
  });
  expect(environmentError(lost)).toMatchObject({ code: 'unreachable', exit: 5 });
  expect(environmentError(Object.assign(new Error('deadlock detected'), { code: '40P01' }))).toMatchObject({
    code: 'busy',
  });
  expect(environmentError(new Error('a bug'))).toBeNull();
});

it('twenty that wait on one signal, as the loops of a process do while the database is away, give no warning of a leak', async () => {
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on('warning', onWarning);
  const stop = new AbortController();
  const waiting = Array.from({ length: 20 }, () => patiently(failing(1, lost).work, { signal: stop.signal }));
  expect(await Promise.all(waiting)).toEqual(Array(20).fill(2));
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
});

it('work that was interrupted is not begun again', async () => {
  const { work, calls } = failing(1, new TroupeError('interrupted', 'Ctrl-C.'));
  await expect(patiently(work)).rejects.toMatchObject({ code: 'interrupted' });
  expect(calls()).toBe(1);
});

it('lost brokers are named as brokers, and a lost PostgreSQL as PostgreSQL', async () => {
  const away = await brokersAway();
  expect(isTransient(away)).toBe(true);
  expect(environmentError(away)).toMatchObject({
    code: 'unreachable',
    message: expect.stringMatching(/^The connection to the Kafka brokers was lost: .*ECONNREFUSED.*kafka_brokers/),
  });
  expect(environmentError(away)!.message).not.toContain('PostgreSQL');
  expect(environmentError(lost)!.message).toMatch(/^The connection to PostgreSQL was lost/);
});
