/** Receivers as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No receivers; add one to notify in troupe.yaml.'
    : table(
        ['receiver', 'on', 'sent', 'last', 'given up', 'failing'],
        items.map((one) => [
          ...[one.name, one.on.join(' '), one.sent, one.last_sent_at, one.given_up],
          one.failing && `${one.failing.error} (attempts: ${one.failing.attempts}, next: ${one.failing.next_at})`,
        ]),
      );

export const tested = ({ name }: OutputOf<typeof run.test>): string => `Sent: a test message to ${name}`;
