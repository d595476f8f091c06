/** Receivers as text for people. */
import type { Printer } from '../operation.ts';
import type * as run from './run.ts';

type Output<F extends keyof typeof run> = Awaited<ReturnType<(typeof run)[F]>>;

export const listed = ({ items }: Output<'list'>, { table }: Printer): string =>
  items.length === 0
    ? 'No receivers; add one to notify in troupe.yaml.'
    : table(
        ['receiver', 'on', 'sent', 'last', 'given up', 'failing'],
        items.map((one) => [
          ...[one.name, one.on.join(' '), one.sent, one.last_sent_at, one.given_up],
          one.failing && `${one.failing.error} (attempts: ${one.failing.attempts}, next: ${one.failing.next_at})`,
        ]),
      );

export const tested = ({ name }: Output<'test'>): string => `Sent: a test message to ${name}`;
