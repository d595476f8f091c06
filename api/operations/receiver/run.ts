/** What operations on receivers do. */
import { receiverStates, sendTest } from '../../../store/queue/notify/delivery.ts';
import { findReceiver, readReceivers } from '../../notify/receivers.ts';
import { pageOf } from '../lists.ts';
import type { ReadContext } from '../operation.ts';

export async function list({ db, settings, env }: ReadContext, page: Parameters<typeof pageOf>[2]) {
  const states = new Map((await receiverStates(db)).map((state) => [state.name, state]));
  const receivers = readReceivers(settings.notify, env).map(({ name, on }) => {
    const { sent = 0, last_sent_at = null, given_up = 0, failing = null } = states.get(name) ?? {};
    return { name, on, sent, last_sent_at, given_up, failing };
  });
  return pageOf(receivers, 'name', page);
}

export async function test({ settings, env, project, now }: ReadContext, { name }: { readonly name: string }) {
  await sendTest(findReceiver(readReceivers(settings.notify, env), name), { project, now });
  return { name, sent: true };
}
