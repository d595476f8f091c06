/** What operations on projects do: on the configured server, or on the embedded one of the home. */
import { listProjects, openDatabase } from '../../../store/db/database.ts';
import { type PageRequest, pageOf } from '../lists.ts';
import type { ReadContext } from '../operation.ts';

export async function create({ server: serverOf }: ReadContext, { name: project }: { readonly name: string }) {
  const server = await serverOf();
  const existed = (await listProjects(server)).includes(project);
  await (await openDatabase({ ...server, project, applicationName: 'troupe' })).close();
  return { project, created: !existed };
}

export const list = async ({ server }: ReadContext, page: PageRequest) =>
  pageOf(
    (await listProjects(await server())).map((project) => ({ project })),
    'project',
    page,
  );
