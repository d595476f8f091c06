/** Erasing a person over HTTP. */
import { expect, it } from 'vitest';
import { anEvent, post, testApp } from './support/app.ts';

it('an erasure over HTTP takes the text of a person out of log and tables, and says what it took', async () => {
  const at = await testApp();
  try {
    const hers = { ...anEvent('1', 'e1', { content: 'a word of hers' }) };
    expect(
      (await post(at.app, [{ ...hers, data: { ...hers.data, subject: 'ann' } }, anEvent('2', 'e2')])).statusCode,
    ).toBe(200);
    await at.project();
    const ask = (payload: object) => at.app.inject({ method: 'POST', url: '/v1/erase', payload });
    expect((await ask({ subject: 'ann', dry_run: true })).json()).toMatchObject({ erasure_id: null, episodes: ['e1'] });
    const done = await ask({ subject: 'ann', reason: 'asked for' });
    expect([done.statusCode, done.json()]).toMatchObject([200, { erasure_id: expect.any(String), episodes: ['e1'] }]);
    const { rows } = await at.db.query(
      `select (select count(*)::int from troupe.events where data::text like '%word of hers%') as log,
              (select count(*)::int from traj.messages where text like '%word of hers%') as tables`,
    );
    expect(rows).toEqual([{ log: 0, tables: 0 }]);
    expect((await ask({ subject: 'ann', reason: 'asked for' })).json().code).toBe('not_found');
  } finally {
    await at.close();
  }
});
