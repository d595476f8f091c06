/** What the operation reconcile does. */
import { reconcile as reconcileLog } from '../../../store/log/reconcile.ts';
import type { ReadContext } from '../operation.ts';

export async function reconcile({ db, catchUp, topic }: ReadContext) {
  await catchUp();
  return reconcileLog(db, await topic());
}
