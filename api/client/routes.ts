/** Made from the operations by `npm run docs`: the method and the path of each, which the client knows without their declarations. */
export const ROUTES: Readonly<Record<string, readonly [method: string, path: string]>> = {
  'schedule.add': ['POST', '/v1/schedules'],
  'schedule.backfill': ['POST', '/v1/schedules/:name/backfill'],
  'schedule.dry-run': ['GET', '/v1/schedules/:name/dry-run'],
  'schedule.end-backfill': ['POST', '/v1/schedules/:name/end-backfill'],
  'schedule.list': ['GET', '/v1/schedules'],
  'schedule.pause': ['POST', '/v1/schedules/:name/pause'],
  'schedule.remove': ['DELETE', '/v1/schedules/:name'],
  'schedule.resume': ['POST', '/v1/schedules/:name/resume'],
  'schedule.run': ['POST', '/v1/schedules/:name/run'],
  'schedule.show': ['GET', '/v1/schedules/:name'],
  'receiver.list': ['GET', '/v1/receivers'],
  'receiver.test': ['POST', '/v1/receivers/:name/test'],
};
